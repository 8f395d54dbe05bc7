// Package console tests package console on real databases.
package console
