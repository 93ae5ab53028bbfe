"""What an administrator installs, rendered for the loaded plugins: pure functions, one module per subject."""
