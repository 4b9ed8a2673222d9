"""What is known of a run after its submission: its state, jobs, attempts and logs, as records and in words."""
