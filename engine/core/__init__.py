"""What installer, app and engine share: light, without numpy and without Qt."""
