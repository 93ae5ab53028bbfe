// The AppWrapper controller with its own webhooks, on addresses and with certificates that are given to it.
// The project's main serves webhooks on every address at port 9443; everything else here is as in that one.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	awv1beta2 "github.com/project-codeflare/appwrapper/api/v1beta2"
	"github.com/project-codeflare/appwrapper/pkg/config"
	"github.com/project-codeflare/appwrapper/pkg/controller"
	"github.com/project-codeflare/appwrapper/pkg/logger"
)

func main() {
	host := flag.String("webhook-host", "127.0.0.1", "address that webhooks are served on")
	port := flag.Int("webhook-port", 9443, "port that webhooks are served on")
	certDir := flag.String("webhook-cert-dir", "", "directory with tls.crt and tls.key")
	health := flag.String("health-probe-bind-address", "127.0.0.1:8081", "address of /healthz and /readyz")
	flag.Parse()
	ctrl.SetLogger(logger.FilteredLogger(zap.New()))

	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(awv1beta2.AddToScheme(scheme))
	settings := config.NewAppWrapperConfig()

	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		WebhookServer:          webhook.NewServer(webhook.Options{Host: *host, Port: *port, CertDir: *certDir}),
		HealthProbeBindAddress: *health,
	})
	exitOnError(err, "unable to start manager")
	certsReady := make(chan struct{})
	close(certsReady)
	ctx := ctrl.SetupSignalHandler()
	exitOnError(controller.SetupIndexers(ctx, mgr, settings), "unable to set up indexers")
	exitOnError(controller.SetupWebhooks(mgr, settings), "unable to set up webhooks")
	exitOnError(controller.SetupControllers(mgr, settings), "unable to set up controllers")
	exitOnError(controller.SetupProbeEndpoints(mgr, certsReady), "unable to set up probes")
	exitOnError(mgr.Start(ctx), "problem running manager")
}

func exitOnError(err error, what string) {
	if err != nil {
		ctrl.Log.WithName("setup").Error(err, what)
		os.Exit(1)
	}
}
