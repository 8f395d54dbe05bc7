// Package nested compares the configurations of two protected handlers of one engine, if one handler runs inside the other.
// The inner handler is a part of the outer operation, and its configuration has no effect. So both configurations must be
// the same.
package nested

import (
	"context"
	"reflect"
)

// Key is the key of a context value. The value is a pointer to the configuration with which a transport executes an
// operation of Engine.
type Key struct{ Engine any }

// Difference returns the name of a field that differs between the configuration inner and the configuration of the outer
// operation. It returns "" if no field differs. If the outer operation belongs to another transport, or to none, it
// returns "the transport".
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

// equal does the same as [reflect.DeepEqual], with two exceptions. A function equals itself. A pointer to a type with
// state, such as a quota, equals only itself.
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
	case reflect.Interface: // the dynamic value may not be comparable
		return a.Comparable() && b.Comparable() && a.Equal(b)
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// hasState reports whether a type has unexported fields. Other goroutines may change these fields.
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

// same compares two function values by the pointers to their code and their captured variables. The pointer to the code
// ([reflect.Value.Pointer]) is not enough: all closures of one place have the same code.
func same[T comparable](a, b T) bool { return a == b }
