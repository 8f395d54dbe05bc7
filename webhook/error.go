package webhook

import "errors"

// The methods of [Endpoints] return ErrNotFound, ErrInvalid, ErrURL, ErrTooMany, ErrChanged, ErrRotating and
// ErrDisabled, and also errors of the database. The text of a returned error has more details.
var (
	// ErrNotFound says that the tenant has no endpoint with the given ID, or that the endpoint has no event with
	// the given ID. ErrNotFound is also returned for an endpoint of another tenant.
	ErrNotFound = errors.New("webhook: the tenant has no endpoint or event with this ID")

	// ErrInvalid says that a setting of an endpoint is not valid. The text of the error says which
	// setting.
	ErrInvalid = errors.New("webhook: the endpoint is not valid")

	// ErrURL says that the URL of an endpoint is not allowed, or that its host name cannot be resolved. Do not
	// show the text of the error to a tenant: the text contains addresses that your DNS resolver has returned.
	ErrURL = errors.New("webhook: the URL of the endpoint is not allowed")

	// ErrTooMany says that the tenant already has Config.MaxEndpoints endpoints.
	ErrTooMany = errors.New("webhook: the tenant has too many endpoints")

	// ErrChanged says that the endpoint now has another Version than the Version that the caller has read,
	// because another caller has changed the endpoint.
	ErrChanged = errors.New("webhook: another caller has changed the endpoint at the same time. Try: read the endpoint, and change it again")

	// ErrRotating says that the secret cannot be replaced yet, because requests are still signed with the
	// previous secret, too.
	ErrRotating = errors.New("webhook: the secret cannot be rotated, because the previous secret is still valid")

	// ErrDisabled says that the endpoint is disabled.
	ErrDisabled = errors.New("webhook: the endpoint is disabled. Try: enable the endpoint")
)
