package payments

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/oncelib/once/oncehttp"
)

// problem is an error that the client may see.
type problem struct{ oncehttp.Problem }

func (p *problem) Error() string { return string(p.Code) + ": " + p.Detail }

// refusal is a problem that the client must solve: nothing was done, sending the same again will not help, and the corrected request is a new intent.
func refusal(status int, code oncehttp.ProblemCode, detail string) *problem {
	return &problem{oncehttp.Problem{
		Type:   "https://oncelib.dev/problems/payments/" + slug.Replace(strings.ToLower(string(code))),
		Status: status, Code: code, Detail: detail, SafeNewKey: true,
	}}
}

var slug = strings.NewReplacer(".", "/", "_", "-")

// fieldError says why one member of a body is wrong.
type fieldError struct{ name, code, detail string }

func invalidFields(status int, wrong ...fieldError) *problem {
	p := refusal(status, "VALIDATION."+oncehttp.ProblemCode(wrong[0].code), "")
	details := make([]string, len(wrong))
	for i, w := range wrong {
		details[i] = w.name + " " + w.detail
		p.Errors = append(p.Errors, oncehttp.FieldError{Pointer: "/" + pointerEscape.Replace(w.name), Detail: w.detail})
	}
	p.Detail = strings.Join(details, "; ") + "."
	return p
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

func notFound(kind, id string) *problem {
	return refusal(http.StatusNotFound, "NOT_FOUND."+oncehttp.ProblemCode(kind), fmt.Sprintf("There is no %s %s.", kind, id))
}

func exceeds(left int64) *problem {
	return invalidFields(http.StatusUnprocessableEntity, fieldError{
		"amount", "amount_exceeds_charge", fmt.Sprintf("is more than %d, the amount that can still be refunded", left),
	})
}

func alreadyVoided(id string) *problem {
	return refusal(http.StatusUnprocessableEntity, "VALIDATION.refund_voided", "The refund "+id+" has been voided before.")
}

// notTheLast returns the problem of a request whose precondition is false. why is the reason.
func notTheLast(why string) *problem {
	return refusal(http.StatusPreconditionFailed, "CONFLICT.version", why)
}

const (
	missing = "This customer does not exist yet. To create it, send If-None-Match: *."
	exists  = "This customer exists already."
	changed = "The customer was changed by another request, or never had the ETag in If-Match."
)

func unconditional() *problem {
	return refusal(http.StatusPreconditionRequired, "VALIDATION.if_match_required",
		"The request must name the version that it replaces: send If-Match with the ETag, or If-None-Match: * for a new customer.")
}

func unauthenticated() *problem {
	return shared(http.StatusUnauthorized, oncehttp.ProblemUnauthenticated, "Not authenticated", "The request has no credentials. Send the header Authorization: Bearer TENANT.")
}

func bodyTooLarge(most int) *problem {
	return shared(http.StatusRequestEntityTooLarge, oncehttp.ProblemBodyTooLarge, "Request body too large", fmt.Sprintf("The body is larger than %d KiB.", most>>10))
}

// shared returns a problem that package oncehttp also answers with. A client cannot tell which layer has answered, so both answer with the same
// problem. SafeNewKey is false, because the key was not looked up.
func shared(status int, code oncehttp.ProblemCode, title, detail string) *problem {
	p := refusal(status, code, detail)
	p.Type, p.Title, p.SafeNewKey = "https://oncelib.dev/problems/"+slug.Replace(strings.ToLower(string(code))), title, false
	return p
}

func writeProblem(w http.ResponseWriter, p *problem) { oncehttp.WriteProblem(w, p.Problem) }

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it cannot fail, because all values are types of this program
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // an error means that the client has disconnected
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
