module github.com/oncelib/once/onceconnect

go 1.25.0

replace github.com/oncelib/once => ..

require (
	connectrpc.com/connect v1.21.0
	github.com/oncelib/once v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800
	google.golang.org/protobuf v1.36.11
)
