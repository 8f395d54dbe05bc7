package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/webhook"
)

// TestVerifyAllocates: at most 2 allocations for each request, however large it is and however many secrets there are. It stands here
// because the race detector, with which the tests of the package run, takes objects out of pools.
func TestVerifyAllocates(t *testing.T) {
	secret := webhook.NewSecret()
	signer, err := webhook.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{200, 20_000} {
		body := []byte(`{"type":"refund.succeeded","data":"` + strings.Repeat("x", size) + `"}`)
		h := http.Header{}
		if err := signer.Sign(h, "msg_1", time.Now(), body); err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]*webhook.Verifier{
			"one": webhook.Standard(secret), "three": webhook.Standard(webhook.NewSecret(), webhook.NewSecret(), secret),
		} {
			n := testing.AllocsPerRun(100, func() {
				if _, err := v.Verify(h, body); err != nil {
					t.Fatal(err)
				}
			})
			if n > 2 {
				t.Errorf("%d bytes, %s secret: %v allocations", size, name, n)
			}
		}
	}
}
