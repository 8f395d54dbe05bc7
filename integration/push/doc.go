// Package push tests receivers that are not asked: HTTP and Watermill push messages to them.
package push
