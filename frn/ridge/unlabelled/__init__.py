"""What photos without labels say: of the classes that they are compared with, and of classes among themselves."""
