package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncelib/once/internal/testenv"
	"github.com/oncelib/once/webhook"
)

// TestLibrariesOfNPM: the libraries of Standard Webhooks, GitHub and Shopify for Node verify what is signed here and nothing else, and what the first two sign is verified here.
func TestLibrariesOfNPM(t *testing.T) {
	testenv.Prove(t)
	testenv.Need(t, "node", "npm")
	type request struct {
		Secret  string            `json:"secret"`
		ID      string            `json:"id"`
		Headers map[string]string `json:"headers"`
		GitHub  string            `json:"github"`
		Shopify string            `json:"shopify"`
		Body    string            `json:"body"`
	}
	var requests []request
	for _, body := range []string{`{}`, `{"test": 2432232314}`, `{"name":"Zoë €"}`} {
		for _, good := range []bool{true, false} {
			secret := webhook.NewSecret()
			signer, err := webhook.NewSigner(webhook.NewSecret(), secret)
			must(t, err)
			h := http.Header{}
			must(t, signer.Sign(h, "msg_1", time.Now(), []byte(body)))
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write([]byte(body))
			r := request{
				secret, "msg_1", map[string]string{"webhook-id": "msg_1", "webhook-timestamp": h.Get(webhook.HeaderTimestamp), "webhook-signature": h.Get(webhook.HeaderSignature)},
				"sha256=" + hex.EncodeToString(mac.Sum(nil)), base64.StdEncoding.EncodeToString(mac.Sum(nil)), body,
			}
			if !good {
				r.Body = " " + body
			}
			requests = append(requests, r)
		}
	}
	text, err := json.Marshal(requests)
	must(t, err)
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS("testdata/npm")))
	must(t, os.WriteFile(filepath.Join(dir, "requests.json"), text, 0o600))
	run := func(command ...string) []byte {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\nTry: a network from which the npm registry can be reached", command, err)
		}
		return out
	}
	run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	var answers []struct {
		Standard, GitHub, Shopify         bool
		Stamp, Signature, GitHubSignature string
	}
	must(t, json.Unmarshal(run("node", "compare.mjs", "requests.json"), &answers))
	if len(answers) != len(requests) {
		t.Fatalf("%d answers", len(answers))
	}
	for i, a := range answers {
		r, good := requests[i], i%2 == 0
		_, err := webhook.Shopify(r.Secret).Verify(http.Header{"X-Shopify-Hmac-Sha256": {r.Shopify}}, []byte(r.Body))
		if a.Standard != good || a.GitHub != good || a.Shopify != good || (err == nil) != good {
			t.Errorf("%d: the libraries say %v, %v and %v, want %v; of Shopify's this one says %v", i, a.Standard, a.GitHub, a.Shopify, good, err)
		}
		h := http.Header{webhook.HeaderID: {r.ID}, webhook.HeaderTimestamp: {a.Stamp}, webhook.HeaderSignature: {a.Signature}, "X-Hub-Signature-256": {a.GitHubSignature}}
		agree(t, i, webhook.Standard(r.Secret), h, []byte(r.Body))
		agree(t, i, webhook.GitHub(r.Secret), h, []byte(r.Body))
	}
}
