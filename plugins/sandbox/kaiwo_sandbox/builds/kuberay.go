// The KubeRay operator without its webhooks, which are off unless ENABLE_WEBHOOKS is set. They do not compile with
// the controller-runtime of Kueue and AppWrapper; without them all three share the packages that they are built from.
package main

import (
	"context"
	"flag"
	"os"

	routev1 "github.com/openshift/api/route/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configapi "github.com/ray-project/kuberay/ray-operator/apis/config/v1alpha1"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/batchscheduler"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
)

// The flags of the project's program that a sandbox uses.
var (
	metrics        = flag.String("metrics-addr", configapi.DefaultMetricsAddr, "address of /metrics")
	health         = flag.String("health-probe-bind-address", configapi.DefaultProbeAddr, "address of /healthz and /readyz")
	leaderElection = flag.Bool("enable-leader-election", configapi.DefaultEnableLeaderElection, "whether to elect a leader")
)

func main() {
	flag.Parse()
	ctrl.SetLogger(zap.New())
	ctx := ctrl.SetupSignalHandler()
	restConfig := ctrl.GetConfigOrDie()
	restConfig.UserAgent = "kuberay-operator/" + utils.KUBERAY_VERSION
	restConfig.QPS, restConfig.Burst = float32(configapi.DefaultQPS), configapi.DefaultBurst

	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(rayv1.AddToScheme(scheme))
	utilruntime.Must(routev1.Install(scheme))
	created := labels.SelectorFromSet(labels.Set{utils.KubernetesCreatedByLabelKey: utils.ComponentName})
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  cache.Options{ByObject: map[client.Object]cache.ByObject{&batchv1.Job{}: {Label: created}}},
		Metrics:                metricsserver.Options{BindAddress: *metrics},
		HealthProbeBindAddress: *health,
		LeaderElection:         *leaderElection,
		LeaderElectionID:       "ray-operator-leader",
	})
	exitOnError(err, "unable to start manager")
	setUpControllers(ctx, mgr, restConfig)
	exitOnError(mgr.AddHealthzCheck("healthz", healthz.Ping), "unable to set up health check")
	exitOnError(mgr.AddReadyzCheck("readyz", healthz.Ping), "unable to set up ready check")
	exitOnError(mgr.Start(ctx), "problem running manager")
}

func setUpControllers(ctx context.Context, mgr ctrl.Manager, restConfig *rest.Config) {
	config := configapi.Configuration{}
	scheduler, err := batchscheduler.NewSchedulerManager(ctx, config, restConfig, mgr.GetClient())
	exitOnError(err, "unable to create batch scheduler manager")
	scheduler.AddToScheme(mgr.GetScheme())

	clusterOptions := ray.RayClusterReconcilerOptions{
		IsOpenShift: utils.GetClusterType(), BatchSchedulerManager: scheduler,
	}
	clusters := ray.NewReconciler(ctx, mgr, clusterOptions)
	exitOnError(clusters.SetupWithManager(mgr, configapi.DefaultReconcileConcurrency), "unable to set up RayCluster")
	services := ray.NewRayServiceReconciler(ctx, mgr, config)
	exitOnError(services.SetupWithManager(mgr, configapi.DefaultReconcileConcurrency), "unable to set up RayService")
	jobs := ray.NewRayJobReconciler(ctx, mgr, ray.RayJobReconcilerOptions{BatchSchedulerManager: scheduler}, config)
	exitOnError(jobs.SetupWithManager(mgr, configapi.DefaultReconcileConcurrency), "unable to set up RayJob")
}

func exitOnError(err error, what string) {
	if err != nil {
		ctrl.Log.WithName("setup").Error(err, what)
		os.Exit(1)
	}
}
