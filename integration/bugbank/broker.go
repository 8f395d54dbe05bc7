package bugbank

// brokerMutants are publishers that break the order of a key, or say that a message was delivered which was not.
var brokerMutants = []Mutant{
	{
		Name:  "a publisher sends on after a message of the key has failed",
		Edits: []Edit{{In: "(*publication).finish", Old: "case r.err != nil:", New: "case r.err != nil && next == 0:"}, {In: "(*publication).finish", Old: "case next != 0:", New: "case next > 0:"}},
		Tests: in("internal/keyed", "TestContract"),
	},
	{
		Name:  "a publisher sends all messages of a key at once",
		Edits: []Edit{{In: "(*publication).chain", Old: "if follows {", New: "if follows && false {"}},
		Tests: in("internal/keyed", "TestContract"),
	},
	{
		Name:  "what follows a refused message is refused for good",
		Edits: []Edit{{In: "(*publication).finish", Old: `has failed: %v"`, New: `has failed: %w"`}},
		Tests: in("internal/keyed", "TestContract"),
	},
	{
		Name:  "what was not sent when the context ended is confirmed",
		Edits: []Edit{{In: "(*publication).end", Old: "err == errUnsent || err == errUnknown", New: "err == errUnknown"}},
		Tests: in("broker/httpbroker", "TestPublisher$/^ContextHasEnded$"),
	},
	{
		Name:  "calls that hang give their place away",
		Edits: []Edit{{In: "(*publication).start", Old: "results <- result{i, send(&m)}\n<-slots", New: "<-slots\nresults <- result{i, send(&m)}"}},
		Tests: in("internal/keyed", "TestEndOfContext"),
	},
	{
		Name:  "a relay goes on with a connection that is closed for good",
		Edits: []Edit{{In: "endIfClosed", Old: "if IsClosed(err) {", New: "if IsClosed(err) && end == nil {"}},
		Tests: []Killer{{Module: "integration", Package: "outbox", Test: "TestRelayNATSIsClosed", Hangs: true}},
	},
	{
		Name:  "a consumer goes on with a connection that is closed for good",
		Edits: []Edit{{In: "(*consumer).fetchAll", Old: "nc.IsClosed()", New: "nc == nil"}},
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestNATSIsClosed", Hangs: true}},
	},
	{
		Name:  "a redirect is followed",
		Edits: []Edit{{In: "httpbroker.Publisher", Old: "return http.ErrUseLastResponse", New: "return nil"}},
		Tests: in("broker/httpbroker", "TestAnswers"),
	},
	{
		Name:  "a receiver that is overloaded is taken for one that refuses a message",
		Edits: []Edit{{In: "httpbroker.refused", Old: "if said {\nreturn outbox.Unavailable(retry.After(err, after))\n}", New: "_ = outbox.Unavailable"}},
		Tests: in("broker/httpbroker", "TestAnswers"),
	},
	{
		Name:  "a NATS publisher gives messages to a connection that is lost",
		Edits: []Edit{{In: "natsbroker.(*publisher).Publish", Old: "status != nats.CONNECTED", New: "status == nats.CLOSED"}, {In: "natsbroker.(*publisher).Publish", Old: "cancel(notConnected(status))\ncase <-ctx.Done():", New: "_ = status\ncase <-ctx.Done():"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestNATSSendsNothingLater"}},
	},
	{
		Name:  "a message of NATS has no ID that a stream knows again",
		Edits: []Edit{{In: "natsbroker.(*publisher).send", Old: "jetstream.WithMsgID(msgID(m)),", New: ""}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestNATSRefusals"}},
	},
	{
		Name:  "a stream of NATS drops another message that has the same ID, as a duplicate",
		Edits: []Edit{{In: "natsbroker.msgID", Old: "h.Write(m.Payload)", New: "h.Reset()"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestNATSReusedID"}},
	},
	{
		Name:  "a Kafka publisher takes a client that does not wait for the replicas",
		Edits: []Edit{{In: "kafkabroker.(*publisher).send", Old: "if !p.waits", New: "if false"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestKafkaRefusals"}},
	},
	{
		Name:  "a publisher of RabbitMQ takes a message for delivered that no queue has taken",
		Edits: []Edit{{In: "amqpbroker.(*publisher).send", Old: "returned := l.isReturned(number); returned", New: "returned := l.isReturned(number); returned && false"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestAMQPUnroutable"}},
	},
	{
		Name:  "a publisher of RabbitMQ does not wait for the confirmation",
		Edits: []Edit{{In: "amqpbroker.(*publisher).send", Old: "p.wait(confirmation)", New: "confirmation != nil, error(nil)"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestAMQPUnroutable"}},
	},
	{
		Name:  "a publisher of RabbitMQ takes a refusal of a queue for a confirmation",
		Edits: []Edit{{In: "amqpbroker.(*publisher).send", Old: "case confirmed:", New: "case confirmed || !l.IsClosed():"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestAMQPUnroutable"}},
	},
	{
		Name:  "a publisher of RabbitMQ takes silence for a confirmation",
		Edits: []Edit{{In: "amqpbroker.(*publisher).send", Old: "case err != nil:", New: "case err != nil && p == nil:"}, {In: "amqpbroker.(*publisher).send", Old: "case confirmed:", New: "case confirmed || err != nil:"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestAMQPSilentQueue"}},
	},
	{
		Name:  "a queue of RabbitMQ that is missing is not found",
		Edits: []Edit{{In: "amqpbroker.Check", Old: "if isGone(err) {", New: "if isGone(err) {\ncontinue\n}\nif isGone(err) {"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestAMQPCheck"}},
	},
	{
		Name:  "Declare makes a queue of RabbitMQ that is on one disk",
		Edits: []Edit{{In: "amqpbroker.declare", Old: "kind := quorum", New: "kind := classic"}},
		Tests: []Killer{{Module: "integration", Package: "broker", Test: "TestAMQPCheck"}},
	},
	{
		Name:  "a consumer of RabbitMQ acknowledges a message before it is applied",
		Edits: []Edit{{In: "amqpbroker.(*consumer).delivery", Old: "d.Message.Delivery = deliveryOf(from)", New: "d.Message.Delivery = deliveryOf(from)\n_ = ch.Ack(from.DeliveryTag, false)"}},
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestAMQP"}},
	},
	{
		Name:  "a consumer of RabbitMQ ends when its server is killed",
		Edits: []Edit{{In: "amqpbroker.(*consumer).takeAll", Old: "if c.conn.isClosed() {", New: "if err != nil {\nreturn err\n}\nif c.conn.isClosed() {"}},
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestAMQP"}},
	},
}
