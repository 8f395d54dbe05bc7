// Package saga proves what package saga promises on databases, with nodes that are killed.
package saga
