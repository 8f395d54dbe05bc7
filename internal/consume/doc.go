// Package consume feeds an inbox with what a broker delivers: what all consumers share.
//
// A [Pool] holds messages, up to a bound. Messages of one source, topic and key are in one worker at a time. A
// worker takes a batch, gives it to the inbox, and then acknowledges each message or asks for it again. While the database
// refuses work, fewer workers are busy.
package consume
