"""Files of users, read into trees and records."""
