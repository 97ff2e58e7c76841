"""The screens of the dashboard, one file each."""
