package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
)

// list answers with rows, a line each.
func list(db *sql.DB, query string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rows, err := read(r.Context(), db, query)
		if err != nil {
			http.Error(w, "the request has failed: try again", http.StatusInternalServerError)
			return
		}
		for _, row := range rows {
			_, _ = fmt.Fprintln(w, strings.Join(row, "  "))
		}
	}
}

// read returns rows of texts.
func read(ctx context.Context, db *sql.DB, query string, args ...any) (list [][]string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, fields := make([]string, len(columns)), make([]any, len(columns))
		for i := range row {
			fields[i] = &row[i]
		}
		if err := rows.Scan(fields...); err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}
