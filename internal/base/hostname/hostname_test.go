package hostname

import (
	"strings"
	"testing"
)

func TestCanonicalHostnames(t *testing.T) {
	long := strings.Repeat("a", 300)
	for host, want := range map[string]string{
		"":                       "",
		".":                      ".",
		"api.example":            "api.example",
		"API.Example":            "api.example",
		"api.example.":           "api.example",
		"api.example:":           "api.example",
		"api.example:443":        "api.example",
		"api.example:80":         "api.example",
		"api.example.:443":       "api.example",
		"api.example.:8443":      "api.example:8443",
		"api.example:8443":       "api.example:8443",
		"api.example:8080":       "api.example:8080",
		"10.0.0.1:80":            "10.0.0.1",
		"[FE80::443]:443":        "[fe80::443]",
		"[fe80::443]":            "[fe80::443]",
		"[::1]:8443":             "[::1]:8443",
		"fe80::443":              "fe80::443",
		":443":                   "",
		"dns:///api.example:443": "dns:///api.example",
		"dns://[::1]/a.:9":       "dns://[::1]/a:9",
		"api.example/":           "api.example/",
		long:                     long[:255],
	} {
		if got := Canonical(host); got != want {
			t.Errorf("%q is %q, want %q", host, got, want)
		}
		if again := Canonical(want); again != want {
			t.Errorf("%q is %q the second time", want, again)
		}
	}
	for _, host := range []string{"api.example", "api.example:443", "api.example.", "api.example:8443"} {
		if n := testing.AllocsPerRun(100, func() { Canonical(host) }); n != 0 {
			t.Errorf("%q: %v allocations", host, n)
		}
	}
}

func TestOfURL(t *testing.T) {
	for address, want := range map[string]string{
		"":                                 "",
		"mailto:a@b":                       "",
		"https://API.example.:443/v1?x":    "api.example",
		"http://user:pass@api.example?x=@": "api.example",
		"https://api.example:8443#y":       "api.example:8443",
		"https://[::1]:443/":               "[::1]",
	} {
		if got := OfURL(address); got != want {
			t.Errorf("%q is at %q, want %q", address, got, want)
		}
	}
}
