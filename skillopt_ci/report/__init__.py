"""What people read, made from the records: pure text, no input or output."""
