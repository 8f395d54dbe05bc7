// Package nested compares the configurations of two protected handlers of one engine, one
// of which is inside of the other. The inner one is part of the outer one's operation, so
// that its own configuration has no effect: it must then be the same.
package nested

import (
	"context"
	"reflect"
)

// Key is the key of a context value: a pointer to the configuration with which a transport
// executes an operation of an engine.
type Key struct{ Engine any }

// Difference returns the field in which the configuration that inner points to differs from
// the configuration of the operation around it, "" if no field differs. If the operation belongs to another
// transport, or to none, "the transport" differs.
func Difference(ctx context.Context, engine, inner any) (field string) {
	outer := ctx.Value(Key{engine})
	if outer == inner {
		return ""
	}
	a, b := reflect.ValueOf(outer), reflect.ValueOf(inner)
	if outer == nil || a.Type() != b.Type() {
		return "the transport"
	}
	a, b = a.Elem(), b.Elem()
	for i := range a.NumField() {
		if !equal(a.Field(i), b.Field(i)) {
			return "Config." + a.Type().Field(i).Name
		}
	}
	return ""
}

// equal is [reflect.DeepEqual], except that a function equals itself, and that a pointer to something with a state of its own, such as a quota, equals itself alone.
func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Func:
		return same(reflect.ValueOf(a.Interface()), reflect.ValueOf(b.Interface()))
	case reflect.Pointer:
		return a.Pointer() == b.Pointer() || !a.IsNil() && !b.IsNil() && !hasState(a.Type().Elem()) && equal(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Interface: // its value may be one that cannot be compared
		return a.Comparable() && b.Comparable() && a.Equal(b)
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// hasState reports whether a type has fields that are not exported. Other goroutines may change them.
func hasState(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return true
		}
	}
	return false
}

// same compares the pointers of two values of functions: to their code and their captured
// variables. The pointer to the code alone ([reflect.Value.Pointer]) is the same for all closures of one place.
func same[T comparable](a, b T) bool { return a == b }
