"""Downloads from S3, Google Cloud Storage, Azure Blob Storage, git and the Hugging Face Hub."""
