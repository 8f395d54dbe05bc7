package webhook

import "errors"

// Errors that methods of [Endpoints] return, besides errors of the database. Their texts say more.
var (
	// ErrNotFound says that the tenant has no such endpoint, or the endpoint no such event. An endpoint of another tenant is not found either.
	ErrNotFound = errors.New("webhook: there is no such endpoint or event of this tenant")

	// ErrInvalid says that a setting of an endpoint is wrong. The text says which.
	ErrInvalid = errors.New("webhook: the endpoint is not valid")

	// ErrURL says that the URL of an endpoint is not allowed, or that its name cannot be resolved. The text shows addresses of your resolver: it is not for a tenant.
	ErrURL = errors.New("webhook: the URL of the endpoint is not allowed")

	// ErrTooMany says that the tenant has as many endpoints as it can have.
	ErrTooMany = errors.New("webhook: the tenant has too many endpoints")

	// ErrChanged says that the endpoint has another version than the one that was to be changed.
	ErrChanged = errors.New("webhook: the endpoint was changed by another one. Try: read it, and change it again")

	// ErrRotating says that the previous secret still signs.
	ErrRotating = errors.New("webhook: the secret before this one still signs")

	// ErrDisabled says that the endpoint is disabled.
	ErrDisabled = errors.New("webhook: the endpoint is disabled. Try: Enable")
)
