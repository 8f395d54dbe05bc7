// Package shared tests the shared cache of results, on a Redis that is up, refuses, hangs, is flushed and is killed.
package shared
