"""What a model keeps: the vocabulary of specs, their reader and writer, and the catalogue."""
