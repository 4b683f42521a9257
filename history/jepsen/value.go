package jepsen

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"olympos.io/encoding/edn"
)

// FromEDN turns what the EDN library makes of a value into a [Value].
func FromEDN(v any) Value {
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v
	case edn.Keyword:
		return ":" + string(v)
	case edn.Symbol:
		return string(v)
	case edn.Tag:
		return FromEDN(v.Value)
	case int32: // a character
		return string(v)
	case big.Int:
		return fromBig(&v)
	case *big.Int:
		return fromBig(v)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case []byte:
		return string(v)
	case []any:
		list := make([]Value, len(v))
		for i := range v {
			list[i] = FromEDN(v[i])
		}
		return list
	case map[string]Value:
		return v
	case map[any]any:
		m := make(map[string]Value, len(v))
		for key, x := range v {
			m[fieldName(key)] = FromEDN(x)
		}
		return m
	case map[any]bool: // a set
		list := make([]Value, 0, len(v))
		for x := range v {
			list = append(list, FromEDN(pointed(x)))
		}
		slices.SortFunc(list, func(a, b Value) int { return strings.Compare(Text(a), Text(b)) })
		return list
	}
	return fmt.Sprint(v)
}

// pointed undoes the library's way with keys that Go cannot hash: it points to them.
func pointed(key any) any {
	if v := reflect.ValueOf(key); v.Kind() == reflect.Pointer && !v.IsNil() {
		return v.Elem().Interface()
	}
	return key
}

func fieldName(key any) string {
	if k, ok := key.(edn.Keyword); ok {
		return string(k)
	}
	if v := FromEDN(pointed(key)); v != nil {
		if s, ok := v.(string); ok {
			return s
		}
		return Text(v)
	}
	return "nil"
}

func fromBig(n *big.Int) Value {
	if n.IsInt64() {
		return n.Int64()
	}
	return n.String()
}

// fromJSON does the same for encoding/json, with numbers as json.Number.
func fromJSON(v any) Value {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = fromJSON(v[i])
		}
		return v
	case map[string]any:
		for key := range v {
			v[key] = fromJSON(v[key])
		}
		return v
	}
	return v
}

// Text writes a value as EDN, the same for equal values.
func Text(v Value) string { return string(appendText(nil, v)) }

func appendText(b []byte, v Value) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "nil"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case string:
		if strings.HasPrefix(v, ":") {
			return append(b, v...)
		}
		return strconv.AppendQuote(b, v)
	case []Value:
		b = append(b, '[')
		for i := range v {
			if i > 0 {
				b = append(b, ' ')
			}
			b = appendText(b, v[i])
		}
		return append(b, ']')
	case map[string]Value:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		b = append(b, '{')
		for i, key := range keys {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(append(b, ':'), key...)
			b = appendText(append(b, ' '), v[key])
		}
		return append(b, '}')
	}
	return fmt.Append(b, v)
}
