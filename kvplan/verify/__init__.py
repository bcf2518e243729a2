"""What the memory really is, beside what the plan says: allocator model and measurements."""
