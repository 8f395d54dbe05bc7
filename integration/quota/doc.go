// Package quota fills the quota of one principal over HTTP, on real databases, and watches what becomes of it and of another principal.
package quota
