"""Reports status changes of workloads to chats, webhooks and by e-mail."""
