// Package natsdemo has the parts of NATS that "once demo events" needs: a server and a receiver, which the demo starts and kills, and the streams.
package natsdemo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
)

// Server is once demo nats.
var Server = cli.Entry{
	Hidden: true, Name: "demo nats", Brief: "internal: the NATS server in \"once demo events\"",
	Help: `Serves NATS with JetStream until the command is interrupted. The NATS server runs inside this process.
Only "once demo events" should start this command. In production, run a separate NATS server.`,
	Make: func() cli.Runner { return new(natsServer) },
}

type natsServer struct{ listen, dir string }

func (c *natsServer) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.listen, "listen", "127.0.0.1:4222", "`ADDRESS` to serve at")
	fs.StringVar(&c.dir, "dir", "", "`FOLDER` in which the server stores its streams (required)")
}

func (c *natsServer) Run(ctx context.Context, m *cli.Env, _ []string) error {
	host, text, err := net.SplitHostPort(c.listen)
	port, e := strconv.Atoi(text)
	if err != nil || e != nil || c.dir == "" {
		return cli.Usage("--listen is not an address, or --dir is missing", "once demo nats --listen 127.0.0.1:4222 --dir streams")
	}
	if port == 0 { // for the server 0 means 4222
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "once-demo", Host: host, Port: port, JetStream: true, StoreDir: c.dir, NoSigs: true, MaxPayload: 8 << 20,
	})
	if err != nil {
		return fmt.Errorf("%w. Try: --dir with a folder that can be written", err)
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	const patience = 20 * time.Second
	if !s.ReadyForConnections(patience) {
		return errors.New("the NATS server does not start. Try: --listen 127.0.0.1:0, which takes a free port")
	}
	fmt.Fprintf(m.Stdout, "serving   nats://%s\n", s.Addr())
	<-ctx.Done()
	return nil
}
