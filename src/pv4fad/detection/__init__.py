"""The local model: how suspicious a payment looks to the payment network alone."""
