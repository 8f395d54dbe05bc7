// Package sizes measures how many bytes a row of each capability takes in each database, and compares docs/sizes.md with that.
package sizes
