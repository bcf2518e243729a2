"""vLLM's budget: total x fraction less weights, activation peak, other libraries, graphs."""
