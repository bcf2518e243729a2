"""How an engine stores what a model keeps: one room per engine, one protocol."""
