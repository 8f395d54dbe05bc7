package gateway

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// mistake is an error about a value, with its line and column.
func mistake(n ast.Node, text string) error {
	return &yaml.SyntaxError{Message: text, Token: n.GetToken()}
}

// scalar returns the text of a value that is no list and no mapping.
func scalar(n ast.Node, want string) (string, error) {
	if alias, ok := n.(*ast.AliasNode); ok {
		return "", mistake(alias, "an alias of YAML is not allowed as the value of this setting. Try: write the value itself")
	}
	if _, ok := n.(ast.ScalarNode); !ok || n.Type() == ast.NullType {
		return "", mistake(n, want)
	}
	return n.GetToken().Value, nil
}

// duration is a time such as 5s, 2m30s or 72h.
type duration time.Duration

const wantDuration = "the value is not a duration such as 500ms, 30s or 72h"

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (d *duration) UnmarshalYAML(n ast.Node) error {
	text, err := scalar(n, wantDuration)
	if err != nil {
		return err
	}
	v, err := time.ParseDuration(text)
	if err != nil || v < 0 {
		return mistake(n, wantDuration)
	}
	*d = duration(v)
	return nil
}

// size is a number of bytes, such as 64MiB.
type size int64

const wantSize = "the value is not a size such as 512KiB, 64MiB or 1000000"

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (s *size) UnmarshalYAML(n ast.Node) error {
	text, err := scalar(n, wantSize)
	if err != nil {
		return err
	}
	for _, u := range units {
		number, found := strings.CutSuffix(text, u.suffix)
		if !found {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || v <= 0 || v > math.MaxInt64/u.bytes {
			break
		}
		*s = size(v * u.bytes)
		return nil
	}
	return mistake(n, wantSize)
}

// network is a range of addresses such as 10.0.0.0/8, or one address.
type network netip.Prefix

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (p *network) UnmarshalYAML(n ast.Node) error {
	const want = "the value is neither a network such as 10.0.0.0/8 nor an address"
	text, err := scalar(n, want)
	if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		*p = network(netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil || prefix.Addr().Is4In6():
		return mistake(n, want)
	case prefix != prefix.Masked():
		return mistake(n, "the address of the network must have only zero bits after its prefix. Try: "+prefix.Masked().String())
	}
	*p = network(prefix)
	return nil
}
