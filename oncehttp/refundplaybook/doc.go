// Package refundplaybook has a preset for package oncehttp: the dialect of refund services behind several gateways, with the error codes and hints of
// their playbook.
package refundplaybook
