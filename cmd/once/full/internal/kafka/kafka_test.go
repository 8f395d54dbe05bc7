package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/oncelib/once/cmd/once/internal/destination"
	"github.com/oncelib/once/message"
)

// certificate returns one for 127.0.0.1, and the file by which it is trusted.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ca
}

// TestKafkaURL delivers a message to a cluster that asks for TLS and a password.
func TestKafkaURL(t *testing.T) {
	t.Parallel()
	cert, ca := certificate(t)
	const password = "p@ss/word"
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(2), kfake.SeedTopics(1, "refunds"), kfake.EnableSASL(), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}),
		kfake.Superuser("PLAIN", "relay", password), kfake.Superuser("SCRAM-SHA-256", "relay", password), kfake.Superuser("SCRAM-SHA-512", "relay", password),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	open := func(password, query string) *destination.Destination {
		to, err := Open(kafkaScheme + url.UserPassword("relay", password).String() + "@" + strings.Join(cluster.ListenAddrs(), ",") + query)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(to.Close)
		if strings.Contains(to.Name, "word") || !strings.HasPrefix(to.Name, "kafka://relay:xxxxx@127.0.0.1:") {
			t.Errorf("its name is %s", to.Name)
		}
		return to
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, query := range []string{"?tls=true&ca=" + ca, "?tls=true&sasl=scram-sha-256&ca=" + ca, "/?sasl=plain&tls=true&ca=" + ca} {
		if err := errors.Join(open(password, query).Publish(ctx, []message.Message{{ID: "1", Topic: "refunds", Key: "k", Type: "t", Payload: []byte("{}")}})...); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	refused, cancel := context.WithTimeout(ctx, 2*time.Second) // for which the client would try again
	defer cancel()
	for name, to := range map[string]*destination.Destination{"a wrong password": open("wrong", "?tls=true&ca="+ca), "a certificate of an unknown authority": open(password, "?tls=true")} {
		if findings, err := to.Check(refused, []string{"refunds"}); err == nil {
			t.Errorf("%s is accepted: %v", name, findings)
		}
	}
}

// TestKafkaURLRefused: what cannot be meant is told, without the password.
func TestKafkaURLRefused(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{
		"kafka://":                                  "one or more addresses",
		"kafka://a:9092/topic":                      "no path",
		"kafka://u:sec/ret@a:9092?tls=true":         "%2F",
		"kafka://u:secret@a:9092?sasl=plain":        "without encryption",
		"kafka://u:secret@a:9092?sasl=gssapi":       "scram-sha-256",
		"kafka://a:9092?sasl=plain&tls=true":        "USER:PASSWORD@",
		"kafka://a:9092?tls=yes":                    "true or false",
		"kafka://a:9092?tls=true&tls=false":         "twice",
		"kafka://a:9092?ca=/etc/ca.pem":             "tls=true",
		"kafka://u:secret@a:9092?secret=1":          "tls, ca and sasl",
		"kafka://u:secret@a:9092?tls=true&ca=/no/x": "a file that you may read",
		"kafka://a:9092?tls=true&ca=" + empty:       "PEM",
	} {
		if _, err := Open(to); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v", to, err)
		}
	}
}
