// Package asked is what requests say about their operation, in the same words over any
// transport: whose it is, and since when it is being asked for.
package asked
