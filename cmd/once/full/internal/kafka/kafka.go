// Package kafka makes Kafka a destination of relays, and makes it possible that the doctor examines Kafka.
package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/oncelib/once/broker/kafkabroker"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/destination"
	"github.com/oncelib/once/operate/doctor"
)

const (
	kafkaScheme = "kafka://"
	kafkaUsage  = "--to 'kafka://USER:PASSWORD@HOST:9092,HOST:9092?tls=true&sasl=scram-sha-512', where only one HOST:PORT is required"
)

// Open reads the URL of a cluster.
func Open(to string) (*destination.Destination, error) {
	k, err := parseKafka(to)
	if err != nil { // the error does not show the URL, which may have a password
		return nil, cli.Usage("--to kafka://: "+err.Error(), kafkaUsage)
	}
	opts, err := k.options()
	if err != nil {
		return nil, fmt.Errorf("--to %s: %w", k, err)
	}
	client, err := kgo.NewClient(append(opts, kgo.DisableIdempotentWrite())...)
	if err != nil {
		return nil, fmt.Errorf("--to %s: %w. Try: %s", k, err, kafkaUsage)
	}
	return &destination.Destination{Publisher: kafkabroker.Publisher(client), Broker: doctor.Broker{
		Name: k.String(), Close: client.Close,
		Check: func(ctx context.Context, topics []string) ([]string, error) {
			return kafkabroker.Check(ctx, client, topics...)
		},
	}}, nil
}

// kafkaURL is the URL of a cluster.
type kafkaURL struct {
	brokers   []string
	user      *url.Userinfo // nil if the URL has none
	mechanism string        // in lower case
	tls       bool
	ca        string // file with the certificates to trust; "" means the certificates of the system
}

// String is the URL without its password.
func (k kafkaURL) String() string {
	s := kafkaScheme
	if k.user != nil {
		s += url.User(k.user.Username()).String() + ":xxxxx@"
	}
	return s + strings.Join(k.brokers, ",")
}

// parseKafka reads a URL whose host is a list, which net/url does not support.
func parseKafka(to string) (k kafkaURL, err error) {
	_, rest, _ := strings.Cut(to, "://")
	rest, query, _ := strings.Cut(rest, "?")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		u, err := url.Parse("kafka://" + rest[:i] + "@host")
		if err != nil || u.User == nil || u.Host != "host" {
			return k, errors.New("USER:PASSWORD is not valid: write the characters / and @ in a user name or a password as %2F and %40")
		}
		k.user, rest = u.User, rest[i+1:]
	}
	rest = strings.TrimSuffix(rest, "/")
	if k.brokers = strings.Split(rest, ","); rest == "" || strings.ContainsAny(rest, "/#") {
		return k, errors.New("the URL must have one or more addresses, and no path")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return k, errors.New("the parameters after the character ? are not valid")
	}
	k.mechanism = "scram-sha-512"
	for name, list := range values {
		switch value := list[0]; {
		case len(list) > 1:
			return k, fmt.Errorf("the parameter %s is given twice", name)
		case name == "tls" && (value == "true" || value == "false"):
			k.tls = value == "true"
		case name == "ca" && value != "":
			k.ca = value
		case name == "sasl" && kafkaMechanisms[value] != nil:
			k.mechanism = value
		case name == "tls":
			return k, errors.New("the parameter tls must be true or false")
		case name == "sasl":
			return k, errors.New("the parameter sasl must be plain, scram-sha-256 or scram-sha-512")
		default:
			return k, fmt.Errorf("the parameter %q does not exist; the parameters are tls, ca and sasl", name)
		}
	}
	switch {
	case k.user == nil && values.Has("sasl"):
		return k, errors.New("the parameter sasl needs USER:PASSWORD@ before the addresses")
	case k.ca != "" && !k.tls:
		return k, errors.New("the parameter ca needs tls=true")
	case k.user != nil && k.mechanism == "plain" && !k.tls:
		return k, errors.New("sasl=plain without tls=true would send the password without encryption")
	}
	return k, nil
}

var kafkaMechanisms = map[string]func(user, password string) sasl.Mechanism{
	"plain": func(user, password string) sasl.Mechanism {
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	},
	"scram-sha-256": func(user, password string) sasl.Mechanism {
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	},
	"scram-sha-512": func(user, password string) sasl.Mechanism {
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	},
}

func (k kafkaURL) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(k.brokers...)}
	if k.user != nil {
		password, _ := k.user.Password()
		opts = append(opts, kgo.SASL(kafkaMechanisms[k.mechanism](k.user.Username(), password)))
	}
	if !k.tls {
		return opts, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if k.ca != "" {
		pem, err := os.ReadFile(k.ca)
		if err != nil {
			return nil, fmt.Errorf("the parameter ca: %w. Try: use a file that you may read", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file %s of the parameter ca has no certificate. Try: use a file with certificates in PEM format", k.ca)
		}
	}
	return append(opts, kgo.DialTLSConfig(config)), nil
}
