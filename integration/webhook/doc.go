// Package webhook compares packages webhook and webhook/ssrf with the libraries of senders and of others.
package webhook
