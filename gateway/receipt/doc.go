// Package receipt reads the receipts of a service for a gateway, and writes tombstones. A receipt is a row of the table once_receipt, which
// the service inserts in the transaction in which it does its work:
//
//	insert into once_receipt (operation, fingerprint, status, body) values (?, ?, 201, ?)
//
// [New] is for a gateway that reaches the database of the service, [NewClient] for one that asks an endpoint of it. [Handler] is that
// endpoint for services in Go; docs/receipt.md has it for others, and the way without a gateway.
package receipt
