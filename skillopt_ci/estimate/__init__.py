"""What a run will call and cost, said before it does: counts, sizes of calls, money."""
