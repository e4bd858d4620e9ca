// Package wiretest writes by a msgpack library, and with no knowledge of codecs, what a message
// should look like on the wire. It is for tests.
package wiretest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// Elements returns the fields of a struct, or of one that v points to, in their order, but those named: what a message has
// on the wire. A struct inside of it adds its own fields, and in a list it is a list.
func Elements(v any, but ...string) []any {
	return fields(reflect.Indirect(reflect.ValueOf(v)), but)
}

func fields(v reflect.Value, but []string) (all []any) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case slices.Contains(but, v.Type().Field(i).Name):
		case f.Kind() == reflect.Struct:
			all = append(all, fields(f, but)...)
		default:
			all = append(all, value(f, but))
		}
	}
	return all
}

func value(v reflect.Value, but []string) any {
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return v.Uint()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.Kind() == reflect.String:
		return v.String()
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		return append([]byte{}, v.Bytes()...)
	case v.Kind() == reflect.Struct:
		return fields(v, but)
	case v.Kind() != reflect.Slice:
		panic("wiretest: a field of type " + v.Type().String())
	}
	list := make([]any, v.Len())
	for i := range list {
		list[i] = value(v.Index(i), but)
	}
	return list
}

// Encode returns the elements, one after another.
func Encode(t testing.TB, elements ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	if err := e.EncodeMulti(elements...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Fill sets each field of v, and each to a value that no other field has: it counts on from last.
// It skips the fields of v that skip names.
func Fill(v reflect.Value, last *uint64, skip ...string) {
	*last++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !slices.Contains(skip, v.Type().Field(i).Name) {
				Fill(v.Field(i), last)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			Fill(v.Index(i), last)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *last))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*last))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(*last)
	default:
		panic(fmt.Sprintf("a field of type %v", v.Type()))
	}
}
