-- name: CreateRefund :one
insert into refunds (charge, amount) values ($1, $2) returning *;
