// Package home tests several regions, each with a database of its own: who owns a tenant, moves that are killed, and a storm of retries, cut links,
// late maps and moves.
package home
