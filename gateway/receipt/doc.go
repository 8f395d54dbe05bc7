// Package receipt reads the receipts of a service for a gateway, and writes tombstones: rows that prevent the
// service from committing an operation. A receipt is a row of the table once_receipt, which the service inserts
// in the transaction in which it does its work:
//
//	insert into once_receipt (operation, fingerprint, status, body) values (?, ?, 201, ?)
//
// Use [New] if the gateway can reach the database of the service. Use [NewClient] if the gateway must ask an HTTP
// endpoint of the service. The function [Handler] implements such an endpoint for services in Go. docs/receipt.md
// shows how to implement the endpoint in other languages, and how to use receipts without a gateway.
package receipt
