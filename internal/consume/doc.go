// Package consume passes the messages of a broker to an inbox. All consumers share it.
//
// A [Pool] holds a limited number of messages. One worker at a time has the messages of a source, topic and key. A worker takes
// a batch and passes it to the inbox. Then it acknowledges each message, or asks for another delivery. While the database
// refuses work, fewer workers run.
package consume
