"""What any scheduler could have made of the GPU-hours that jobs held, on rented GPUs or on so many: bounds, judged."""
