// Package refundplaybook has a dialect for package oncehttp: that of refund services behind several
// gateways, with the codes and hints of their playbook.
package refundplaybook
