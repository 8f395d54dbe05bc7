// Package refundplaybook has a preset for package oncehttp: the dialect of refund services behind several gateways, with the error codes and hints of
// their playbook (a list of errors, with advice for callers).
package refundplaybook
