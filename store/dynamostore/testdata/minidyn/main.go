// Command minidyn serves github.com/truora/minidyn. It is a module of its own, because that needs a newer Go than once does: TestServersAgreeWithTheFake
// makes go.mod and go.sum of the files with .txt.
package main

import (
	"fmt"
	"net/http/httptest"

	"github.com/truora/minidyn/server"
)

func main() {
	fmt.Println(httptest.NewServer(server.NewServer()).URL)
	select {}
}
