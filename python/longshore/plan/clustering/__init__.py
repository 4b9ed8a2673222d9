"""Clustering algorithms (`by_task`, `by_dimension`, `by_chain`, `by_run_time`), and what joins and checks clusters."""
