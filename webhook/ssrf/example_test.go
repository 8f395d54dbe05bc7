package ssrf_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/oncelib/once/webhook/ssrf"
)

func Example() {
	guard := &ssrf.Guard{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")}} // receivers of your own
	client := guard.Client()
	for _, target := range []string{"https://169.254.169.254/latest/meta-data/", "http://1.1.1.1/", "https://1.1.1.1/hooks", "https://10.20.0.7/hooks"} {
		fmt.Println(target, guard.CheckURL(context.Background(), target)) // when an endpoint is created
	}
	_, err := client.Get("https://127.0.0.1/")
	fmt.Println(errors.Is(err, ssrf.ErrRefused))
	// Output:
	// https://169.254.169.254/latest/meta-data/ ssrf: the address 169.254.169.254 is the metadata address of a cloud provider (AWS, Azure, Google Cloud and others), and no setting allows it
	// http://1.1.1.1/ ssrf: the URL begins with http. Try: https, or Guard.AllowHTTP
	// https://1.1.1.1/hooks <nil>
	// https://10.20.0.7/hooks <nil>
	// true
}
