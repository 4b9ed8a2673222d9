"""What pilots have and get: their states by their records, the queue, and the policy; nothing here touches a file."""
