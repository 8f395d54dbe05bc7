package bugbank

// amqpbrokerMutants are bugs of package broker/amqpbroker.
var amqpbrokerMutants = []Mutant{
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
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestRabbitMQMessagesAreAppliedOnce"}},
	},
	{
		Name:  "a consumer of RabbitMQ holds a message for as long as its handler wants to wait",
		Edits: []Edit{{In: "amqpbroker.newConsumer", Old: "Hold: longestHeld,", New: ""}},
		Tests: []Killer{{Module: "broker/amqpbroker", Test: "TestLongPauseIsShorterThanTheConsumerTimeout"}},
	},
	{
		Name:  "a silent RabbitMQ server holds a consumer that must end",
		Edits: []Edit{{In: "amqpbroker.(*Conn).finish", Old: "c.bounded(context.WithoutCancel(ctx), call)", New: "call()"}},
		Tests: []Killer{{Module: "broker/amqpbroker", Test: "TestConsumeEndsWhileTheServerIsSilent"}},
	},
	{
		Name:  "the check of an exchange waits for a silent RabbitMQ server",
		Edits: []Edit{{In: "amqpbroker.CheckExchange", Old: "err = conn.bounded(ctx, func() error {", New: "err = func(call func() error) error { return call() }(func() error {"}},
		Tests: []Killer{{Module: "broker/amqpbroker", Test: "TestCheckExchangeOfASilentServer"}},
	},
	{
		Name:  "a consumer of RabbitMQ ends when its server is killed",
		Edits: []Edit{{In: "amqpbroker.(*consumer).takeAll", Old: "if c.conn.isClosed() {", New: "if err != nil {\nreturn err\n}\nif c.conn.isClosed() {"}},
		Tests: []Killer{{Module: "integration", Package: "consumer", Test: "TestRabbitMQMessagesAreAppliedOnce"}},
	},
}
